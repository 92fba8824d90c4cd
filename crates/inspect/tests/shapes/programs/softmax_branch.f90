! problem: softmax
! techniques: none
subroutine softmax(m, n, in, out) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_float), intent(in) :: in(n, m)
  real(c_float), intent(out) :: out(n, m)
  real(c_double) :: most, total
  integer :: i, j
  do i = 1, m
    most = in(1, i)
    do j = 2, n
      if (in(j, i) <= most) cycle
      most = in(j, i)
    end do
    total = 0
    do j = 1, n
      total = total + exp(in(j, i) - most)
    end do
    do j = 1, n
      out(j, i) = exp(in(j, i) - most) / total
    end do
  end do
end subroutine softmax
