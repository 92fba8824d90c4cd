// forbidden_include: line 2: the header `/etc/hostname`
#incl\
ude "/etc/hostname"
void dgemm(int n,const double*A,const double*B,double*C){}
