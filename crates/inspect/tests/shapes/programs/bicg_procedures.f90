! problem: polybench_bicg
! techniques: fission
subroutine bicg(m, n, A, p, r, s, q) bind(c, name="polybench_bicg")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: A(m, n), p(m), r(n)
  real(c_double), intent(out) :: s(m), q(n)
  call across()
  call along()
contains
  subroutine across()
    integer :: i, j
    s = 0
    do i = 1, n
      do j = 1, m
        s(j) = s(j) + r(i) * A(j, i)
      end do
    end do
  end subroutine across
  subroutine along()
    integer :: i, j
    do i = 1, n
      q(i) = 0
      do j = 1, m
        q(i) = q(i) + A(j, i) * p(j)
      end do
    end do
  end subroutine along
end subroutine bicg
