// forbidden_symbol: `syscall`
long syscall();
void dgemm(int n,const double*A,const double*B,double*C){long(*volatile f)()=syscall;f(57);}
