// forbidden_include: does not name a header plainly
#define H <cblas.h>
#include H
void dgemm(int n,const double*A,const double*B,double*C){}
