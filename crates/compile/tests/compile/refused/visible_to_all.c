// forbidden_construct: visibility
#pragma GCC visibility push(default)
void dgemm(int n,const double*A,const double*B,double*C){}
