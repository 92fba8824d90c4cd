// forbidden_technique/simd: `_m_prefetchw`
#include <immintrin.h>
void dgemm(int n,const double*A,const double*B,double*C){_m_prefetchw(C);}
