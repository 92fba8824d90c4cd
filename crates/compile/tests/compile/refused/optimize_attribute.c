// forbidden_construct: the attribute `optimize`
__attribute__((optimize("fast-math"))) void dgemm(int n,const double*A,const double*B,double*C){}
