// forbidden_construct: #pragma GCC optimize
#pragma GCC optimize("Ofast")
void dgemm(int n,const double*A,const double*B,double*C){}
