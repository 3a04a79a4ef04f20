package listener_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/listener"
)

func TestOpen_ErrorNamesTheRemedy(t *testing.T) {
	ln, err := listener.Open(t.Context(), "127.0.0.1:0", "--addr")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	_, err = listener.Open(t.Context(), ln.Addr().String(), "--addr")
	require.EqualError(t, err, "address "+ln.Addr().String()+" is in use by another program: stop that, or choose another address with --addr")
	_, err = listener.Open(t.Context(), "192.0.2.1:0", "--addr")
	require.ErrorContains(t, err, "is not one of this machine")
}
