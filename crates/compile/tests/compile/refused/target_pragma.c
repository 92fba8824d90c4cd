// forbidden_construct: #pragma GCC push_options
#pragma GCC push_options
#pragma GCC target("avx512f")
void dgemm(int n,const double*A,const double*B,double*C){}
