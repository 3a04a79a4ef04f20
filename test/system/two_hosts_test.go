package system_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

func TestAnInstallationOnTwoMachinesWorksAsItsDocumentationSays(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "../../deploy/two-hosts.sh")
	cmd.Env = append(os.Environ(), "WAYPOST="+devtest.Binary(t))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "goes on without the control plane")
	require.Contains(t, string(out), "the click is counted")
}
