package alerts_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/maxmind/mmdbwriter"
	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/test/devtest"
)

// get asks as a browser does, and follows no redirect.
func get(t *testing.T, url string) (text []byte, status int, err error) {
	return ask(t, http.MethodGet, url, "")
}

// ask sends a request, to edges' paths of the API with the edge token.
func ask(t *testing.T, method, url, body string) (text []byte, status int, err error) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(req.URL.Path, "/fleet/") {
		req.Header.Set("Authorization", "Bearer "+edgeToken)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err = io.ReadAll(res.Body)
	return text, res.StatusCode, err
}

// get returns the status of an answer.
func (w *world) get(url string) int {
	w.t.Helper()
	_, status, err := get(w.t, url)
	require.NoError(w.t, err)
	return status
}

func (w *world) post(url, body string) (status int, answer string) {
	w.t.Helper()
	text, status, err := ask(w.t, http.MethodPost, url, body)
	require.NoError(w.t, err)
	return status, string(text)
}

// atOnce calls a function several times at once.
func (w *world) atOnce(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}

// run runs a command against the API.
func (w *world) run(args ...string) devtest.Result {
	w.t.Helper()
	r := devtest.Run(w.t, []string{"WAYPOST_API=" + w.control.API}, args...)
	require.Equal(w.t, 0, r.Code, "%v: %s%s", args, r.Stdout, r.Stderr)
	return r
}

// succeeds reports whether a command succeeds.
func (w *world) succeeds(args ...string) bool {
	w.t.Helper()
	return devtest.Run(w.t, []string{"WAYPOST_API=" + w.control.API}, args...).Code == 0
}

// create creates a link, with further fields, and waits until the edges have it.
func (w *world) create(code, fields string) {
	w.t.Helper()
	status, answer := w.post(w.control.API+"/api/v1/urls", `{"original_url": "https://example.com/`+code+`", "custom_code": "`+code+`"`+fields+`}`)
	require.Equal(w.t, http.StatusCreated, status, answer)
	for _, node := range []string{"eu-1", "eu-2"} {
		url := "http://" + w.edges[node].Addr + "/" + code
		require.Eventually(w.t, func() bool { return w.get(url) != http.StatusNotFound }, patience, 10*time.Millisecond)
	}
}

// enrolment returns a token with which a node gets a credential of its own.
func (w *world) enrolment(node string) string {
	w.t.Helper()
	var made struct{ Token string }
	text := w.run("edges", "enrol", "--region", "eu-west-1", "--node", node, "--output", "json").Stdout
	require.NoError(w.t, json.Unmarshal([]byte(text), &made))
	return made.Token
}

// connect connects to PostgreSQL as a superuser.
func (w *world) connect() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), devtest.Superuser(w.database))
	require.NoError(w.t, err)
	return conn
}

// exec executes statements as a superuser of PostgreSQL.
func (w *world) exec(sql string) {
	w.t.Helper()
	super := w.connect()
	_, err := super.PgConn().Exec(w.t.Context(), sql).ReadAll()
	require.NoError(w.t, err, sql)
	require.NoError(w.t, super.Close(w.t.Context()))
}

// changed returns how many rows a statement changes.
func (w *world) changed(sql string) int64 {
	w.t.Helper()
	super := w.connect()
	defer func() { require.NoError(w.t, super.Close(w.t.Context())) }()
	tag, err := super.Exec(w.t.Context(), sql)
	require.NoError(w.t, err, sql)
	return tag.RowsAffected()
}

// locked locks tables until the returned function is called.
func (w *world) locked(tables string) (unlock func()) {
	w.t.Helper()
	super := w.connect()
	_, err := super.Exec(w.t.Context(), `BEGIN; LOCK TABLE `+tables)
	require.NoError(w.t, err)
	return func() { require.NoError(w.t, super.Close(context.Background())) }
}

// setClock lets PostgreSQL's clock be ahead of the machine's.
func (w *world) setClock(ahead string) {
	w.t.Helper()
	w.exec(`SET allow_system_table_mods = on;
	DO $$ BEGIN
		IF to_regproc('pg_catalog.clock_of_the_machine') IS NULL THEN
			ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO clock_of_the_machine;
		END IF;
	END $$;
	CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS 'SELECT pg_catalog.clock_of_the_machine() + interval ''` + ahead + `''';
	SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL`)
}

// mount mounts a disk in memory.
func (w *world) mount(size string) (dir string) {
	w.t.Helper()
	dir = w.t.TempDir()
	require.NoError(w.t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	w.t.Cleanup(func() { require.NoError(w.t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill fills the disk that was mounted last, except for some bytes.
func (w *world) fill(left int64) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.disk, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, f.Close()) }()
	for {
		var s syscall.Statfs_t
		require.NoError(w.t, syscall.Statfs(w.disk, &s))
		free := int64(s.Bavail) * s.Bsize
		if free <= left {
			return
		}
		if _, err := f.Write(make([]byte, min(free-left, 1<<20))); err != nil { // others write as well
			return
		}
	}
}

// stopServing stops an edge once it has all links.
func (w *world) stopServing(e *devtest.Edge) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.get("http://"+e.Addr+"/first") == http.StatusFound }, patience, 20*time.Millisecond)
	require.NoError(w.t, e.Stop())
}

// readOnly starts an edge on a disk that is read-only. The edge cannot write down its
// addresses there.
func (w *world) readOnly(node string) (stop func()) {
	w.t.Helper()
	dir := w.t.TempDir()
	w.stopServing(w.edgeIn(dir, node))
	require.NoError(w.t, syscall.Mount(dir, dir, "", syscall.MS_BIND, ""))
	require.NoError(w.t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	admin := freePort(w.t)
	e := devtest.Spawn(w.t, []string{
		"WAYPOST_EDGE_CONTROL_URLS=" + w.control.API, "WAYPOST_EDGE_TOKEN=" + edgeToken, "WAYPOST_EDGE_DATA_DIR=" + dir, quick,
	}, "edge", "--addr", "127.0.0.1:0", "--admin-addr", admin, "--region", "eu-west-1", "--node", node)
	w.scrape("waypost-edge", node, admin)
	return func() {
		w.kill(node, e)
		require.NoError(w.t, syscall.Unmount(dir, syscall.MNT_DETACH))
	}
}

// otherVersion starts an edge of another version of the program.
func (w *world) otherVersion(node string) (stop func()) {
	w.t.Helper()
	program := filepath.Join(w.t.TempDir(), "waypost")
	build := exec.CommandContext(w.t.Context(), "go", "build", "-tags", "failpoints", "-ldflags", "-X main.version=9.9.9",
		"-o", program, "./cmd/waypost")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	e := exec.CommandContext(w.t.Context(), program, "edge", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--region", "eu-west-1", "--node", node)
	e.Env = append(os.Environ(), "WAYPOST_EDGE_CONTROL_URLS="+w.control.API, "WAYPOST_EDGE_TOKEN="+edgeToken,
		"WAYPOST_EDGE_DATA_DIR="+w.t.TempDir())
	e.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w.t, e.Start())
	return func() {
		require.NoError(w.t, e.Process.Signal(syscall.SIGTERM))
		_ = e.Wait() // a signal is no error of the test
	}
}

// takeSnapshots takes all turns for snapshots, and reads hardly anything.
func (w *world) takeSnapshots() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	addr := strings.TrimPrefix(w.control.API, "http://")
	request := "GET " + replication.PathSnapshot + " HTTP/1.1\r\nHost: " + addr + "\r\nAuthorization: Bearer " + edgeToken + "\r\n"
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := (&net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
					return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
				}}).DialContext(ctx, "tcp", addr)
				if err != nil {
					return
				}
				_, err = fmt.Fprintf(c, "%sWaypost-Node: slow-%d\r\nWaypost-Region: eu-west-1\r\n\r\n", request, i)
				answer := make([]byte, 12)
				if err == nil {
					_, err = io.ReadFull(c, answer)
				}
				pause := 50 * time.Millisecond
				if err == nil && string(answer) == "HTTP/1.1 200" {
					pause = 8 * time.Second // less than the control plane waits for a reader
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
				_ = c.Close() // nothing is under way on it
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// damageTables changes a byte in each table of a replica.
func damageTables(t *testing.T, dir string) {
	damaged := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".sst" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			text[len(text)/3] ^= 1
			damaged++
			return os.WriteFile(path, text, 0o600)
		}
		return err
	}))
	require.Positive(t, damaged)
}

// flipMemory changes a bit of a text wherever a process has it in memory, outside of the
// heap of Go, as broken memory does.
func flipMemory(t *testing.T, pid int, text string) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, mem.Close()) }()
	flipped := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var rights string
		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights)
		require.NoError(t, err, line)
		if rights != "rw-p" || len(strings.Fields(line)) > 5 || from>>32 == 0xc0 { // a file, or Go's heap
			continue
		}
		area := make([]byte, to-from)
		n, _ := mem.ReadAt(area, int64(from)) // it may have been unmapped
		for at := 0; ; {
			i := bytes.Index(area[at:n], []byte(text))
			if i < 0 {
				break
			}
			at += i + len(text) - 1
			_, err := mem.WriteAt([]byte{area[at] ^ 1}, int64(from)+int64(at))
			require.NoError(t, err)
			flipped++
		}
	}
	require.Positive(t, flipped)
}

// certificate returns the files of a certificate that ends in three days.
func certificate(t *testing.T) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(72 * time.Hour),
		DNSNames: []string{"go.example.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// refusingAuthority runs a certificate authority that refuses everything, and returns its
// URL and the file of its certificate.
func refusingAuthority(t *testing.T) (directory, roots string) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	roots = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(roots, text, 0o600))
	return server.URL + "/directory", roots
}

// oldPlaces returns the file of a GeoIP database that is 50 days old.
func oldPlaces(t *testing.T) string {
	db, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-City", BuildEpoch: time.Now().AddDate(0, 0, -50).Unix()})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "places.mmdb")
	f, err := os.Create(file)
	require.NoError(t, err)
	_, err = db.WriteTo(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return file
}
