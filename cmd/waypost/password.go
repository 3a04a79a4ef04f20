package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// maxPasswordFile bounds a password file, in bytes.
const maxPasswordFile = 4096

// password takes one from a file, "-" for standard input; without a file from the
// terminal, without showing it, or without a terminal from standard input. With
// twice, a terminal is asked two times, and both must be the same.
func (p *program) password(file, prompt string, twice bool) (string, error) {
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("--password-file: %w", err)
		}
		defer f.Close()
		return firstLine(f, "there is no password in "+file)
	}
	if file == "-" {
		return firstLine(p.stdin, "there is no password on standard input")
	}
	terminal, ok := p.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return firstLine(p.stdin, "there is no password: type it on a terminal, pipe it in, or give --password-file")
	}
	word, err := p.ask(terminal, prompt)
	if err != nil || !twice {
		return word, err
	}
	again, err := p.ask(terminal, "The same again: ")
	if err == nil && again != word {
		err = errors.New("the two are not the same; nothing was changed")
	}
	return word, err
}

// ask reads a secret from a terminal that does not show it.
func (p *program) ask(terminal *os.File, prompt string) (string, error) {
	if _, err := fmt.Fprint(p.stderr, prompt); err != nil {
		return "", err
	}
	word, err := term.ReadPassword(int(terminal.Fd()))
	_, _ = fmt.Fprintln(p.stderr) // the one that was typed is not shown
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(word), nil
}

// firstLine reads a password that stands alone. None is the error for an empty line.
func firstLine(r io.Reader, none string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPasswordFile+1))
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > maxPasswordFile || strings.ContainsAny(line, "\r\n"):
		return "", errors.New("the password is more than one line")
	case line == "":
		return "", errors.New(none)
	}
	return line, nil
}

// answerOf asks a question on a terminal; "" without a terminal.
func (p *program) answerOf(question string) (string, error) {
	if !p.interactive() {
		return "", nil
	}
	if _, err := fmt.Fprint(p.stderr, question); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(io.LimitReader(p.stdin, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// confirm asks before something is deleted for good, unless the flag --yes says that it
// may be. The user confirms by typing the answer, which needs a terminal.
func (p *program) confirm(question, answer string) error {
	if p.yes {
		return nil
	}
	got, err := p.answerOf(question)
	if err == nil && got != answer {
		err = &usageError{fmt.Errorf("nothing was changed: type %s when asked, or add --yes", answer)}
	}
	return err
}

// confirming makes a command ask a question before it runs, and adds --yes.
func (p *program) confirming(c *cobra.Command, ask func(args []string) (question, answer string)) *cobra.Command {
	c.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	c.PreRunE = func(_ *cobra.Command, args []string) error { return p.confirm(ask(args)) }
	return c
}

// interactive reports whether somebody sits at a terminal.
func (p *program) interactive() bool {
	f, ok := p.stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
