// forbidden_construct: floating-point state
#include <immintrin.h>
void dgemm(int n,const double*A,const double*B,double*C){_MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);}
