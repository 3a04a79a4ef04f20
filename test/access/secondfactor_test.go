package access_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/hotp"
	"waypost/test/devtest"
)

func TestSecondFactor_IsAskedForByLoginUntilAnOperatorResetsIt(t *testing.T) {
	database := databases.Database(t)
	control, err := devtest.StartControl(t, devtest.ControlConfig{
		Database: database, DataDir: filepath.Join(t.TempDir(), "data"), Region: "eu-west-1", Node: "one",
	})
	require.NoError(t, err)
	ready, err := control.Ready()
	require.NoError(t, err)
	require.True(t, ready, control.Output())
	root := newShell(t, "WAYPOST_CONTROL_DATABASE_URL="+database, "WAYPOST_API="+control.API)
	word := root.file("password", "correct horse battery")
	root.run(0, "admin", "create", "--email=root@example.com", "--password-file", word)
	send := func(method, path, token, body string) (answer map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, control.API+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
		require.Less(t, res.StatusCode, 300, answer)
		return answer
	}
	token := send(http.MethodPost, "/api/v1/session", "", `{"email": "root@example.com", "password": "correct horse battery"}`)["token"].(string)
	made := send(http.MethodPost, "/api/v1/me/second-factor", token, `{"current_password": "correct horse battery"}`)
	code, err := hotp.Code(made["secret"].(string), uint64(time.Now().Unix()/30))
	require.NoError(t, err)
	recovery := send(http.MethodPut, "/api/v1/me/second-factor", token, `{"code": "`+code+`"}`)["recovery_codes"].([]any)

	login := func(status int, more ...string) string {
		t.Helper()
		return root.run(status, append([]string{"login", "--email=root@example.com", "--password-file", word}, more...)...).Stderr
	}
	require.Contains(t, login(64), "--code is missing")
	require.Contains(t, login(1, "--code=000"), "was used before")
	login(0, "--code", recovery[0].(string))
	require.Contains(t, root.run(0, "users", "reset-second-factor", "root@example.com").Stdout, "without a second factor")
	require.Contains(t, root.run(1, "users", "reset-second-factor", "root@example.com").Stderr, "no second factor")
	login(0)
}
