// forbidden_include: #embed
static const char x[]={
#embed "/etc/passwd"
};
void dgemm(int n,const double*A,const double*B,double*C){}
