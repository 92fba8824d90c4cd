// forbidden_construct: the attribute `target`
__attribute__((target("avx512f"))) void dgemm(int n,const double*A,const double*B,double*C){}
