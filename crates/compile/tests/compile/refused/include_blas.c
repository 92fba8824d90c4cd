// forbidden_include: the header `cblas.h`
#include <cblas.h>
void dgemm(int n,const double*A,const double*B,double*C){}
