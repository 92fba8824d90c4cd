// forbidden_technique/simd: the technique `prefetch`
void dgemm(int n,const double*A,const double*B,double*C){__builtin_prefetch(A);C[0]=A[0];}
