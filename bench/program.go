package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options hold the flags that all benchmarks have.
type Options struct {
	Only    string // names of sections, with commas; "" for all that are not only of -full
	Full    bool   // all sections
	Try     bool   // little of everything, and nothing is written
	Rounds  int    // of every case
	Out     string // directory of RESULTS.md
	Targets string // file of real links

	command string
}

// Part is a section that can be measured alone.
type Part struct {
	Name    string
	Full    bool // measured with -full or by its name only
	Measure func(ctx context.Context) (Section, error)
}

// Flags returns the flags of the benchmark, to which it adds its own.
func (o *Options) Flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&o.Only, "only", "", "sections to measure, with commas between them")
	flags.BoolVar(&o.Full, "full", false, "measure all sections, those of ten million links too")
	flags.BoolVar(&o.Try, "try", false, "see that it works: little of everything, nothing written")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds of every case")
	flags.StringVar(&o.Out, "out", "bench", "directory of RESULTS.md")
	flags.StringVar(&o.Targets, "targets", "testdata/links.csv", "real links, whose shapes the targets get")
	return flags
}

// Parse reads the flags.
func (o *Options) Parse(flags *flag.FlagSet, args []string) error {
	o.command = strings.Join(append([]string{"go run ./bench/" + flags.Name()}, args...), " ")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if o.Rounds < 1 || o.Rounds > 1000 {
		return errors.New("-rounds must be 1 to 1000")
	}
	if o.Try {
		o.Rounds = 1
	}
	return nil
}

// Logf writes progress to the terminal.
func (o *Options) Logf(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// TempDir makes a directory in another one, "" for the system's; the caller removes it.
func TempDir(in string) (string, error) {
	dir, err := os.MkdirTemp(in, "waypost-bench-")
	if err != nil {
		return "", fmt.Errorf("make a temporary directory: %w", err)
	}
	return dir, nil
}

// Run measures the chosen sections, shows each and, unless it was only tried, writes it
// into RESULTS.md. It measures the other sections also if one fails.
func (o *Options) Run(ctx context.Context, parts []Part) error {
	chosen := strings.Split(o.Only, ",")
	for _, name := range chosen {
		if o.Only != "" && !slices.ContainsFunc(parts, func(p Part) bool { return p.Name == name }) {
			return fmt.Errorf("unknown section %q", name)
		}
	}
	var failed []error
	for _, p := range parts {
		if wanted := slices.Contains(chosen, p.Name) || o.Only == "" && (o.Full || !p.Full); !wanted || ctx.Err() != nil {
			continue
		}
		o.Logf("section %s", p.Name)
		start, load := time.Now(), loadAverage()
		s, err := p.Measure(ctx)
		if err == nil {
			s.Name, s.Notes = p.Name, append(s.Notes, made(o.command, load))
			fmt.Printf("\n%s", s.Markdown())
			if !o.Try {
				err = s.Put(o.Out)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.Name, err))
		}
		o.Logf("section %s took %s", p.Name, time.Since(start).Round(time.Second))
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// Main runs a program until it ends or is interrupted, and exits when it fails.
func Main(name string, run func(ctx context.Context, args []string) error, args []string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, args)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
