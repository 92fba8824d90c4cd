! problem: polybench_bicg
! techniques: fission
subroutine bicg(m, n, A, p, r, s, q) bind(c, name="polybench_bicg")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: A(m, n), p(m), r(n)
  real(c_double), intent(out) :: s(m), q(n)
  integer :: i, j
  real(c_double) :: total
  s = 0
  do i = 1, n
    total = 0
    do j = 1, m
      total = total + A(j, i) * p(j)
    end do
    q(i) = total
    s(1:m) = s(1:m) + r(i) * A(1:m, i)
  end do
end subroutine bicg
