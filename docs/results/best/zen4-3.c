typedef double V;
#define W 1
#define R 4
#define S 32
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n;i+=R){
  double P[n*R];
  for(int k=0;k<n;k++)for(int r=0;r<R;r++)P[k*R+r]=A[(i+r)*n+k];
  for(int j=0;j<n;j+=S*W){
   V c[R][S]={0};
#pragma GCC unroll 8
   for(int k=0;k<n;k++)
    for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+=P[k*R+r]**(V*)&B[k*n+j+s*W];
   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]=c[r][s];
  }
 }
}
