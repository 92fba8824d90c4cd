typedef double V;
#define W 1
#define R 2
#define S 64
void dgemm(int n,const double*A,const double*B,double*C){
 for(int i=0;i<n*n;i++)C[i]=0;
 double P[n*n];
 for(int j=0;j<n;j+=S*W)for(int k=0;k<n;k++)for(int s=0;s<S*W;s++)P[j*n+k*S*W+s]=B[k*n+j+s];
 for(int l=0;l<n;l+=32)
 for(int i=0;i<n;i+=R){
  for(int j=0;j<n;j+=S*W){
   V c[R][S]={0};
   for(int k=l;k<l+32;k++)
    for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+=A[(i+r)*n+k]**(V*)&P[j*n+k*S*W+s*W];
   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]+=c[r][s];
  }
 }
}
