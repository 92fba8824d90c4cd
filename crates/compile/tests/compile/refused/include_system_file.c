// forbidden_include: line 2: the header `/etc/passwd`
#include "/etc/passwd"
void dgemm(int n,const double*A,const double*B,double*C){}
