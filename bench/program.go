package bench

import (
	"cmp"
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

// errAssembled says that nothing is to be measured, as all is done.
var errAssembled = errors.New("RESULTS.md was made anew")

// Main runs a benchmark with the options in the arguments until it ends or is interrupted,
// and ends the process when it fails.
func Main[O any](name string, parse func(args []string) (O, error), measure func(context.Context, O) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o, err := parse(os.Args[1:])
	if err == nil {
		err = measure(ctx, o)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) && !errors.Is(err, errAssembled) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Options are what all benchmarks let their users choose.
type Options struct {
	Only []string // names of sections, in no order
	Out  string   // directory of RESULTS.md
	Temp string   // directory for what is needed on the way
	Try  bool     // see that it works; nothing is written down

	name     string
	sections []string
	only     string
	assemble bool
	command  string
}

// Flags gives the flags of a benchmark with these sections, to add its own to. Needs says
// what it puts into a directory for temporary files.
func (o *Options) Flags(name, needs string, sections []string) *flag.FlagSet {
	o.name, o.sections = name, sections
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "sections to measure, with commas between them, of "+strings.Join(sections, ","))
	flags.StringVar(&o.Out, "out", "bench", "directory for results/"+name+".json and RESULTS.md")
	flags.StringVar(&o.Temp, "temp", "", "where to put "+needs+"; default: the system's directory for temporary files")
	flags.BoolVar(&o.Try, "try", false, "see that it works: little of everything, nothing written")
	flags.BoolVar(&o.assemble, "assemble", false, "measure nothing, make RESULTS.md of the files in results, as after a merge")
	return flags
}

// Parse reads the flags. Only is all sections unless something else is asked for.
func (o *Options) Parse(flags *flag.FlagSet, args []string) error {
	o.command = strings.Join(append([]string{"go run ./bench/" + o.name}, args...), " ")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if o.assemble {
		return cmp.Or(Assemble(o.Out), errAssembled)
	}
	if o.Only = o.sections; o.only != "" {
		o.Only = strings.Split(o.only, ",")
	}
	for _, name := range o.Only {
		if !slices.Contains(o.sections, name) {
			return fmt.Errorf("unknown section %q; there are %s", name, strings.Join(o.sections, ", "))
		}
	}
	return nil
}

// Chosen reports whether the user has named the sections.
func (o *Options) Chosen() bool { return o.only != "" }

// Log tells the user how far a benchmark is.
func (o *Options) Log(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// TempDir makes a directory that is removed, with all that is in it, by the function that
// comes with it.
func (o *Options) TempDir() (dir string, remove func() error, err error) {
	if dir, err = os.MkdirTemp(o.Temp, "waypost-bench-"); err != nil {
		return "", nil, fmt.Errorf("making a directory for what is measured: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// Study is what a benchmark measures, in a laboratory of its own.
type Study[Lab any] struct {
	Title, Method string
	Sections      []Part[Lab]
	Goals         func(*Section) // sets those of a section whose figures are there; may be nil
}

// Part makes one section, but for its name, and for how it was made.
type Part[Lab any] struct {
	Name    string
	Measure func(ctx context.Context, l Lab) (Section, error)
}

// Names gives the names of the sections, in their order.
func Names[Lab any](of []Part[Lab]) (names []string) {
	for _, p := range of {
		names = append(names, p.Name)
	}
	return names
}

// Run makes the sections that are asked for, and writes each down once it is
// complete. One that fails does not keep the others from being made.
func Run[Lab any](ctx context.Context, o *Options, s Study[Lab], l Lab) error {
	var failed []error
	for _, p := range s.Sections {
		if !slices.Contains(o.Only, p.Name) || ctx.Err() != nil {
			continue
		}
		o.Log("section %s", p.Name)
		start, others := time.Now(), loadAverage()
		section, err := p.Measure(ctx, l)
		if err == nil {
			section.Settings = append(section.Settings, Setting{Name: "load average of the machine before", Value: others})
			err = s.complete(o, p.Name, section)
		}
		if err != nil {
			o.Log("section %s has failed: %v", p.Name, err)
			failed = append(failed, fmt.Errorf("%s: %w", p.Name, err))
			continue
		}
		o.Log("section %s took %s", p.Name, time.Since(start).Round(time.Second))
	}
	if err := errors.Join(append(failed, ctx.Err())...); err != nil {
		return err
	}
	if o.Try {
		o.Log("this was to see that it works, and is not written down")
	}
	return nil
}

// complete compares what was measured, shows it and, unless it was only tried, writes it down.
func (s *Study[Lab]) complete(o *Options, name string, made Section) error {
	if err := made.Compare(); err != nil {
		return err
	}
	if s.Goals != nil {
		s.Goals(&made)
	}
	made.Name, made.Made, made.Command, made.Machine = name, time.Now().UTC().Truncate(time.Second), o.command, ThisMachine()
	fmt.Printf("\n%s\n", made.Markdown())
	if o.Try {
		return nil
	}
	r, err := Read(o.Out, o.name)
	if err != nil {
		return err
	}
	r.Title, r.Method = s.Title, s.Method
	r.Put(made, o.sections)
	return r.Write(o.Out)
}
