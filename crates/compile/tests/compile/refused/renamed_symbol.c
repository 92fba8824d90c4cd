// forbidden_construct: redefine_extname
#pragma redefine_extname f system
int f(const char*);
void dgemm(int n,const double*A,const double*B,double*C){f("ls");}
