! problem: polybench_bicg
! techniques: none
subroutine bicg(m, n, A, p, r, s, q) bind(c, name="polybench_bicg")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: A(m, n), p(m), r(n)
  real(c_double), intent(out) :: s(m), q(n)
  integer :: i, j
  s = 0
  q = 0
  do i = 1, n
    do j = 1, m
      s(j) = s(j) + r(i) * A(j, i)
      q(i) = q(i) + A(j, i) * p(j)
    end do
  end do
end subroutine bicg
