// forbidden_construct: trigraphs
??=include <cblas.h>
void dgemm(int n,const double*A,const double*B,double*C){}
