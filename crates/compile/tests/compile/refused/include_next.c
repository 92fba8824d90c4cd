// forbidden_include: include_next
#include_next <math.h>
void dgemm(int n,const double*A,const double*B,double*C){}
