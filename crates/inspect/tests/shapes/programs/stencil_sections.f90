! problem: stencil2d
! techniques: none
subroutine stencil2d(h, w, sweeps, in, out) bind(c, name="stencil2d")
  use iso_c_binding
  implicit none
  integer(c_int), value :: h, w, sweeps
  real(c_double), intent(in) :: in(w, h)
  real(c_double), intent(inout) :: out(w, h)
  real(c_double), allocatable :: old(:, :)
  integer :: t, i
  allocate (old(w, h))
  out = in
  do t = 1, sweeps
    old = out
    do i = 2, h - 1
      out(2:w - 1, i) = 0.5d0 * old(2:w - 1, i) + 0.125d0 * (old(2:w - 1, i - 1) + old(2:w - 1, i + 1) &
                        + old(1:w - 2, i) + old(3:w, i))
    end do
  end do
  deallocate (old)
end subroutine stencil2d
