// forbidden_construct: reading a clock
#include <immintrin.h>
void dgemm(int n,const double*A,const double*B,double*C){C[0]=(double)__rdtsc();}
