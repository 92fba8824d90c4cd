! problem: polybench_2mm
! techniques: fusion
subroutine two_mm(ni, nj, nk, nl, alpha, beta, A, B, C, D) bind(c, name="polybench_2mm")
  use iso_c_binding
  implicit none
  integer(c_int), value :: ni, nj, nk, nl
  real(c_double), value :: alpha, beta
  real(c_double), intent(in) :: A(nk, ni), B(nj, nk), C(nl, nj)
  real(c_double), intent(inout) :: D(nl, ni)
  real(c_double), allocatable :: row(:)
  real(c_double) :: total, first
  integer :: i, j, k, l
  allocate (row(nj))
  do i = 1, ni
    do j = 1, nj
      first = 0
      do k = 1, nk
        first = first + alpha * A(k, i) * B(j, k)
      end do
      row(j) = first
    end do
    do l = 1, nl
      total = beta * D(l, i)
      do j = 1, nj
        total = total + row(j) * C(l, j)
      end do
      D(l, i) = total
    end do
  end do
  deallocate (row)
end subroutine two_mm
