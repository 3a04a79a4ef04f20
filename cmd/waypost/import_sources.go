package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"waypost/internal/linksource"
)

// sourceKey is the variable with the key for the API of another service.
const sourceKey = "SOURCE_API_KEY"

// sourceTexts say what comes along from each source.
var sourceTexts = map[string]string{
	"shlink": `Codes, domains, targets, titles, tags, times of creation, periods of validity, the visits that
are left, the forwarding of queries and rules come along. Visits stay there.`,
	"kutt": `Codes, domains, targets, descriptions, times of creation and expiry come along, and banned links
are not active. A link with a password is refused, because its API does not show it.`,
	"bitly": `Codes, domains of your own, targets, titles, tags and times of creation come along. The first
custom back-half is the code of a link, and the other codes are its aliases. Codes of bit.ly move to
--domain. Archived links work, as they do there.`,
	"waypost": `Everything comes along except clicks and passwords: a link with a password is refused. Links that
name the shared domain of the other installation need --map domain= and --domain.`,
}

// sourceCommands makes a command for each service with an API.
func (p importCommands) sourceCommands() (commands []*cobra.Command) {
	for _, s := range linksource.Sources() {
		commands = append(commands, p.sourceCommand(s.Name, s.Base, func(c linksource.Config) streamWriter {
			return func(ctx context.Context, to io.Writer) error { return s.Write(ctx, c, to) }
		}))
	}
	return append(commands, p.sourceCommand("waypost", "", func(c linksource.Config) streamWriter {
		return func(ctx context.Context, to io.Writer) error {
			from, err := newClient(c.Base, c.Key)
			if err != nil {
				return err
			}
			defer from.Close()
			x := &exporter{api: from, format: "jsonl", done: c.Progress}
			return x.all(ctx, to)
		}
	}))
}

// streamWriter writes links that can be read only once.
type streamWriter func(ctx context.Context, to io.Writer) error

// importStream imports links that can be read only once.
func (w *importWatch) importStream(ctx context.Context, write streamWriter) error {
	from, to := io.Pipe()
	reading, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { _ = to.CloseWithError(write(reading, to)) }) // never fails
	im, err := w.send(ctx, from, 0)
	_ = from.Close() // never fails
	cancel()
	writing.Wait()
	if err != nil {
		return err
	}
	return w.finish(ctx, im)
}

// keyOfSource reads the key for the API of another service.
func (p importCommands) keyOfSource(file string) (string, error) {
	if key := p.getenv(sourceKey); file == "" && key != "" {
		return key, nil
	}
	if file == "" {
		return "", &usageError{errors.New("there is no key for the other API: give --key-file, or set " + sourceKey)}
	}
	from := p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", &usageError{fmt.Errorf("--key-file: %w", err)}
		}
		defer f.Close()
		from = f
	}
	key, err := io.ReadAll(io.LimitReader(from, maxPasswordFile))
	if text := strings.TrimSpace(string(key)); err == nil && text != "" && !strings.ContainsAny(text, "\r\n") {
		return text, nil
	}
	return "", errors.Join(&usageError{fmt.Errorf("--key-file: %s does not hold a key in one line", file)}, err)
}

func (p importCommands) sourceCommand(name, base string, open func(linksource.Config) streamWriter) *cobra.Command {
	var i importing
	var from, keyFile string
	title, example := strings.ToUpper(name[:1])+name[1:], ""
	if base == "" {
		example = " --from https://links.example.com"
	}
	c := &cobra.Command{
		Use:   name,
		Short: "Create the links of " + title + ", which its API lists",
		Long: "Create the links of " + title + `, which this command reads from its API.
` + sourceTexts[name] + `

The key for that API is in the file of --key-file or in ` + sourceKey + `.`,
		Example: "  waypost import " + name + example + " --key-file key.txt --domain go.example.com --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := i.check(c); err != nil {
				return err
			}
			if from == "" {
				return &usageError{errors.New("--from is missing: it names the address of " + title)}
			}
			key, err := p.keyOfSource(keyFile)
			if err != nil {
				return err
			}
			i.wanted.Name, i.wanted.Format = name+" "+from, name
			return p.watch(&i, func(w *importWatch) error {
				return w.importStream(c.Context(), open(linksource.Config{
					Base: from, Key: key, Note: func(text string) { w.say("%s", printable(text)) },
					Progress: func(links int) { w.lines.show(time.Now(), "%s read", numberOf(links, "link", "links")) },
				}))
			})
		},
	}
	i.bind(c)
	c.Flags().StringVar(&from, "from", base, "address of "+title+", such as https://links.example.com")
	c.Flags().StringVar(&keyFile, "key-file", "", "file with the key for its API, - for standard input (default: "+sourceKey+")")
	return c
}
