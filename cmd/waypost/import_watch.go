package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"waypost/api"
	"waypost/client"
)

// Two looks at an import that is under way are soonLook apart at first, and longLook at
// last. importTries bounds the tries of a request, which take some two minutes, because a
// control plane may restart.
const (
	soonLook    = 20 * time.Millisecond
	longLook    = 500 * time.Millisecond
	importTries = 32
)

// importWatch shows one import until it is done.
type importWatch struct {
	p     importCommands
	api   *client.Client
	o     *importing
	lines *progressLine
}

// watch connects to the API for as long as do takes.
func (p importCommands) watch(o *importing, do func(*importWatch) error) error {
	return p.withAPI(func(c *client.Client) error {
		w := &importWatch{p: p, api: c, o: o, lines: newProgressLine(p.stderr)}
		defer w.lines.finish()
		return advise(do(w))
	})
}

// advise adds the remedy for a key without a scope.
func advise(err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if ok && problem.Status == http.StatusForbidden && strings.Contains(problem.Detail, "scope") {
		return fmt.Errorf("%w: the key lacks that scope: use one that has links:read and links:write", err)
	}
	return err
}

func (w *importWatch) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.lines, format+"\n", args...) // what cannot be shown is no reason to stop
}

// persist repeats a request that fails in passing.
func persist[T any](ctx context.Context, request func() (T, error)) (got T, err error) {
	err = client.Retry{Tries: importTries, Again: client.Passing}.Do(ctx, func() (err error) {
		got, err = request()
		return err
	})
	return got, err
}

// send sends the file of a new import, or what the control plane lacks of the file of
// an import that was begun and not finished.
func (w *importWatch) send(ctx context.Context, file io.Reader, size int64) (client.Import, error) {
	if err := w.setZone(ctx); err != nil {
		return client.Import{}, err
	}
	im, found, err := w.unfinished(ctx, file)
	switch {
	case err != nil:
		return im, err
	case found && im.State != api.ImportUploading:
		w.say("going on with the import %s, which has this file", im.ID)
		return im, nil
	case !found:
		if im, err = w.api.Imports.Begin(ctx, w.o.wanted); err != nil {
			return im, fmt.Errorf("nothing was sent: %w", err)
		}
	}
	sent, err := w.api.Imports.Upload(ctx, im.ID, file, func(sent int64) {
		w.lines.show(time.Now(), "%s sent%s", sizeText(sent), shareOf(size, sent))
	})
	if err == nil {
		return sent, nil
	}
	err = fmt.Errorf("the file was not sent whole, and nothing was created: %w", err)
	if _, again := file.(*os.File); again && client.Processed(err) {
		return im, fmt.Errorf("%w: the same command goes on", err)
	}
	return im, errors.Join(err, w.api.Imports.Remove(context.WithoutCancel(ctx), im.ID)) // its rest is gone
}

// setZone sets the zone of times to the zone of the workspace unless a flag names one.
func (w *importWatch) setZone(ctx context.Context) error {
	if w.o.given("time-zone") {
		return nil
	}
	me, err := persist(ctx, func() (api.Me, error) { return client.Get[api.Me](ctx, w.api, api.PathMe) })
	if err != nil {
		return fmt.Errorf("nothing was sent: %w", err)
	}
	if me.Workspace != nil {
		w.o.wanted.TimeZone = me.Workspace.TimeZone
	}
	return nil
}

// unfinished finds an import of the same file with the same options that was begun and
// is not done. A file that can be read only once has none.
func (w *importWatch) unfinished(ctx context.Context, file io.Reader) (im client.Import, found bool, err error) {
	again, ok := file.(*os.File)
	if !ok {
		return im, false, nil
	}
	hash := sha256.New()
	if _, err = io.Copy(hash, again); err == nil {
		_, err = again.Seek(0, io.SeekStart)
	}
	if err != nil {
		return im, false, fmt.Errorf("read %s: %w", w.o.wanted.Name, err)
	}
	w.o.wanted.SHA256 = hex.EncodeToString(hash.Sum(nil))
	all, err := persist(ctx, func() ([]client.Import, error) { return w.api.Imports.List(ctx) })
	if err != nil {
		return im, false, fmt.Errorf("nothing was sent: %w", err)
	}
	for n := range all {
		if w.o.goesOn(&all[n]) {
			return all[n], true, nil
		}
	}
	return im, false, nil
}

// goesOn reports whether the command of an unfinished import was the same. Until an
// import runs, the mapping and some options can be changed.
func (o *importing) goesOn(im *client.Import) bool {
	switch im.State {
	case api.ImportDone, api.ImportUndoing, api.ImportUndone, api.ImportFailed:
		return false
	case api.ImportRunning, api.ImportStopped:
		if o.dryRun {
			return false
		}
	}
	n := &o.wanted
	same := im.SHA256 == n.SHA256 && im.Site == n.Site && im.Raw == n.Raw &&
		(!o.given("format") || im.Format == n.Format) && (!o.given("encoding") || im.Encoding == n.Encoding)
	if im.State == api.ImportReady {
		return same
	}
	keep := n.KeepCodes == nil || *n.KeepCodes
	return same && im.Domain == n.Domain && im.Dedupe == n.Dedupe && im.KeepCodes == keep
}

// finish checks and runs an import whose file is sent, and prints its end.
func (w *importWatch) finish(ctx context.Context, im client.Import) (err error) {
	if im, err = w.await(ctx, im, api.ImportReading, api.ImportChecking); err != nil {
		return w.goOn(ctx, im.ID, err)
	}
	if im.State == api.ImportReady {
		if im, err = w.prepare(ctx, im); err != nil {
			return err
		}
		if w.o.dryRun {
			return w.end(ctx, im, im.Checked)
		}
	}
	if im.State == api.ImportReady || im.State == api.ImportStopped {
		if im, err = w.run(ctx, im, false); err != nil {
			return w.goOn(ctx, im.ID, err)
		}
		if w.o.detach {
			return w.p.print("the import "+im.ID+" runs: `waypost import resume "+im.ID+"` shows it", im)
		}
	}
	if im, err = w.await(ctx, im, api.ImportRunning, api.ImportUndoing); err != nil {
		return w.goOn(ctx, im.ID, err)
	}
	switch im.State {
	case api.ImportDone:
		return w.end(ctx, im, nil)
	case api.ImportUndone:
		return fmt.Errorf("the import %s is undone: import the file again", im.ID)
	case api.ImportFailed:
		return errors.New(encodingHint(printable(im.Problem)))
	case api.ImportUploading:
		return fmt.Errorf("the file of the import %s was not sent whole: give the command with the file again", im.ID)
	}
	if im.Problem != "" {
		return fmt.Errorf("the import stopped: %s: `waypost import resume %s` goes on", printable(im.Problem), im.ID)
	}
	return fmt.Errorf("the import stopped: `waypost import resume %s` goes on", im.ID)
}

// goOn says how an import goes on that can no longer be watched.
func (w *importWatch) goOn(ctx context.Context, id string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the import goes on: `waypost import resume %s` shows it again, and `waypost import stop %s` stops it", id, id)
	}
	return fmt.Errorf("%w: `waypost import resume %s` goes on", err, id)
}

// encodingHint adds the flag for the encoding to a text about it.
func encodingHint(problem string) string {
	if strings.Contains(problem, "UTF-8") {
		problem += ": with --encoding, such as --encoding windows-1252"
	}
	return problem
}

// prepare sets the options that the flags choose, says how the file is understood, and
// checks all rows.
func (w *importWatch) prepare(ctx context.Context, im client.Import) (client.Import, error) {
	if change, some := w.o.changes(&im); some {
		changed, err := persist(ctx, func() (client.Import, error) { return w.api.Imports.Change(ctx, im.ID, change) })
		if err != nil {
			return im, fmt.Errorf("nothing was created: %w", err)
		}
		im = changed
	}
	w.say("%s", shapeText(&im, w.p.width()))
	if len(im.Open) > 0 {
		return im, &usageError{errors.New(openText(&im))}
	}
	if w.o.unchecked {
		return im, nil
	}
	if im.Checked == nil {
		checking, err := w.run(ctx, im, true)
		if err == nil {
			checking, err = w.await(ctx, checking, api.ImportChecking)
		}
		if err != nil {
			return im, w.goOn(ctx, im.ID, err)
		}
		if im = checking; im.Checked == nil {
			return im, fmt.Errorf("the rows were not checked, and nothing was created: %s", cmp.Or(printable(im.Problem), "the check was stopped"))
		}
	}
	if !w.o.dryRun {
		w.say("%s", countsText(&im, *im.Checked, true))
	}
	if n := im.Checked.NewCodes; n > 0 {
		w.say("%s NEW codes: printed links with the codes of the file lead nowhere", numberOf(int(n), "link gets", "links get"))
		if !w.o.dryRun && !w.o.given("keep-codes") {
			return im, &usageError{errors.New("nothing was created: say --keep-codes=false if new codes are wanted")}
		}
	}
	return im, nil
}

// run begins or resumes the import, or a check of all rows.
func (w *importWatch) run(ctx context.Context, im client.Import, dry bool) (client.Import, error) {
	began, err := persist(ctx, func() (client.Import, error) { return w.api.Imports.Run(ctx, im.ID, dry) })
	if err != nil {
		return im, err
	}
	return began, nil
}

// await shows an import until it has none of the states. An error leaves it as it was.
func (w *importWatch) await(ctx context.Context, im client.Import, states ...string) (client.Import, error) {
	for pause := soonLook; slices.Contains(states, im.State); pause = min(2*pause, longLook) {
		w.lines.show(time.Now(), "%s", progressText(&im))
		if err := client.Pause(ctx, pause); err != nil {
			return im, err
		}
		next, err := persist(ctx, func() (client.Import, error) { return w.api.Imports.Find(ctx, im.ID) })
		if err != nil {
			return im, err
		}
		im = next
	}
	return im, nil
}

// shownRefusals bounds the lines of refused rows on standard error; --report has all.
const shownRefusals = 10

// end prints the counts of an import, or of its check, and writes the refused rows to
// the report.
func (w *importWatch) end(ctx context.Context, im client.Import, checked *client.ImportCounts) error {
	w.lines.finish()
	counts := im.Counts
	if checked != nil {
		counts = *checked
	}
	if err := w.writeRefused(ctx, im.ID, counts.Refused); err != nil {
		return err
	}
	if err := w.p.print(countsText(&im, counts, checked != nil), im); err != nil {
		return err
	}
	switch n := int(counts.Refused); {
	case n > 0 && checked != nil:
		return errors.New(numberOf(n, "row", "rows") + " would be refused")
	case n > 0:
		return errors.New(numberOf(n, "row was", "rows were") + " not created")
	}
	return nil
}

// writeRefused writes the refused rows to the report, or shows the first ones.
func (w *importWatch) writeRefused(ctx context.Context, id string, refused int64) error {
	if w.o.report != "" {
		err := replaceFile(w.o.report, func(to io.Writer) error { return w.api.Imports.WriteRefused(ctx, id, to) })
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		return nil
	}
	if refused == 0 || w.p.output == "json" {
		return nil
	}
	first := &beginningOf{left: shownRefusals}
	if err := w.api.Imports.WriteRefused(ctx, id, first); err != nil && first.left > 0 {
		return err
	}
	for line := range strings.Lines(first.text.String()) {
		w.say("%s", printable(shortened(strings.TrimRight(line, "\r\n"))))
	}
	w.say("`waypost import get %s --report refused.csv` writes all refused rows to a file, to be mended and imported", id)
	return nil
}

// beginningOf keeps the first lines of a text, and fails when it has them.
type beginningOf struct {
	text strings.Builder
	left int // lines
}

func (b *beginningOf) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if b.left == 0 || b.text.Len() > 64<<10 {
			b.left = 0
			return 0, io.ErrShortWrite
		}
		b.text.Write(line)
		if bytes.HasSuffix(line, []byte("\n")) {
			b.left--
		}
	}
	return len(p), nil
}
