//go:build linux && (amd64 || arm64) && !race

package server

import (
	"syscall"
	"unsafe"
)

// Neither of these waits, ever, so that the scheduler need not be told of them. They
// come nearer to the socket than read and write, and know of no signals.

// receive reads what there is.
func receive(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// send writes as much as there is room for; on an error, nothing.
func send(fd uintptr, p []byte) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}
