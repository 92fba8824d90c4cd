// forbidden_construct: weak
#pragma weak main
void dgemm(int n,const double*A,const double*B,double*C){}
