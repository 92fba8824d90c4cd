// forbidden_construct: executable stack
static void each(void(*f)(int)){for(int i=0;i<9;i++)f(i);}
void (*volatile keep)(void(*)(int))=each;
void dgemm(int n,const double*A,const double*B,double*C){
 void one(int i){C[i]=A[i];}
 keep(one);
}
