// forbidden_include: __has_include
#if __has_include("/etc/passwd")
int x;
#endif
void dgemm(int n,const double*A,const double*B,double*C){}
