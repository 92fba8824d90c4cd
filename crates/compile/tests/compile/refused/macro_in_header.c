// forbidden_construct: changes the header's text
#define sqrt sqrt(double) __asm__("system"); extern double hidden
#include <math.h>
void dgemm(int n,const double*A,const double*B,double*C){C[0]=sqrt(A[0]);}
