// forbidden_include: the header `/etc/hostname`
/* not
*/ %: /* yet */ include "/etc/hostname"
void dgemm(int n,const double*A,const double*B,double*C){}
