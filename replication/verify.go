package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"waypost"
)

// Verification is the result of comparing a replica with its source.
type Verification struct {
	Slots       int              // compared
	Records     uint64           // in them, by the source
	Different   int              // slots that were different, twice, at positions that were equal
	Repaired    int              // of these, that are not any more
	Position    waypost.Position // where the last comparison of slots was made
	Took        time.Duration
	Differences []Difference // some of them
}

// Difference is one record that is not what the source has.
type Difference struct {
	Slot   uint16
	Kind   waypost.Kind
	Domain waypost.DomainID
	Name   string
	What   DifferenceKind
	Held   *waypost.Record // by the replica; nil: none, or none that can be read
	Source *waypost.Record // nil: it has none
}

// DifferenceKind classifies a difference.
type DifferenceKind string

// The kinds of differences.
const (
	Missing    DifferenceKind = "missing"    // the source has it
	Extra      DifferenceKind = "extra"      // the source does not have it
	Changed    DifferenceKind = "different"  // another version, or another content
	Unreadable DifferenceKind = "unreadable" // it is not what was written
)

const (
	// maxDifferences bounds the records that a verification lists, and maxExplained the
	// slots that are searched for them.
	maxDifferences = 20
	maxExplained   = 32

	verifyTries = 3 // of reaching the source
	verifyPause = 200 * time.Millisecond
	verifyReach = time.Minute // for the replica to come to where the source was, and to be read
)

// Verify compares the sink, which must be a [Comparer], with the source, slot by slot,
// while it follows. A slot counts as different when it is so at two positions, one after
// the other, each time compared with the source at that very position, so that
// concurrent writes are no difference. With repair, the differing slots are then
// repaired, as after any other divergence. Run must be running. ctx bounds the time.
// With an error it returns the differences found before.
func (f *Follower) Verify(ctx context.Context, repair bool) (Verification, error) {
	begun := time.Now()
	sink, ok := f.cfg.Sink.(Comparer)
	if !ok {
		return Verification{}, errors.New("verify: this replica cannot be compared")
	}
	v := verifying{follower: f, sink: sink}
	err := v.settled(ctx, v.compare)
	if err == nil && repair && len(v.differing) > 0 {
		err = v.settled(ctx, v.recheck)
	}
	v.result.Took = time.Since(begun)
	if err != nil {
		return v.result, fmt.Errorf("verify the replica: %w", err)
	}
	return v.result, nil
}

type verifying struct {
	follower  *Follower
	sink      Comparer
	result    Verification
	differing []uint16 // in order
	asked     bool     // for a repair
}

// settled compares, and again for as long as the replica is not settled.
func (v *verifying) settled(ctx context.Context, compare func(context.Context, Comparison) error) error {
	for failures := 0; ; {
		err := v.beginComparison(ctx, compare)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case errors.Is(err, ErrUnsettled):
		case errors.Is(err, errLocal), errors.Is(err, errNoRoute), errors.Is(err, ErrUnauthorized), failures == verifyTries:
			return err
		default:
			failures++
		}
		if sleepErr := sleep(ctx, verifyPause); sleepErr != nil {
			return errors.Join(err, sleepErr)
		}
	}
}

func (v *verifying) beginComparison(ctx context.Context, compare func(context.Context, Comparison) error) error {
	if held := v.follower.Status().Held; held != nil {
		return fmt.Errorf("%w: %w", errLocal, held) // it does not come to where the source is
	}
	c, err := v.sink.Compare(ctx)
	if err != nil {
		if errors.Is(err, ErrUnsettled) {
			return err
		}
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	defer c.Close()
	return compare(ctx, c)
}

// compare finds the slots that differ, twice, and what is wrong with them.
func (v *verifying) compare(ctx context.Context, c Comparison) error {
	v.result, v.differing = Verification{}, nil
	differing, err := v.sums(ctx, c, url.Values{"first": {"0"}}, func(n int, records uint64) {
		v.result.Slots += n
		v.result.Records += records
	})
	if err != nil {
		return err
	}
	if v.result.Slots != waypost.Slots {
		return fmt.Errorf("%w: the sums are of %d slots", errFrame, v.result.Slots)
	}
	if v.differing, err = v.again(ctx, c, differing); err != nil {
		return err
	}
	v.result.Different = len(v.differing)
	if len(v.differing) == 0 {
		return nil
	}
	return v.explain(ctx, c)
}

// recheck has what differs repaired, and sees what of it differs still.
func (v *verifying) recheck(ctx context.Context, c Comparison) error {
	if !v.asked {
		// A source that refuses repairs must not make the replica ask for one forever.
		query := url.Values{"slots": {fmt.Sprint(v.differing[0])}, queryRepair: {"1"}}
		d, err := v.follower.source.connectQuietly(ctx, PathSums, query, v.follower.cfg.Sink.Position(), waitAside)
		if err != nil {
			return err
		}
		d.close()
		v.asked = true
		c.Suspect(fmt.Errorf("%d slots differ from the source's", len(v.differing)))
		return ErrUnsettled
	}
	left, err := v.again(ctx, c, v.differing)
	if err == nil {
		v.result.Repaired = len(v.differing) - len(left)
	}
	return err
}

// again compares some slots again, and returns those that differ.
func (v *verifying) again(ctx context.Context, c Comparison, slots []uint16) (differing []uint16, err error) {
	for len(slots) > 0 {
		list, rest := slotList(slots)
		some, err := v.sums(ctx, c, url.Values{"slots": {list}}, func(int, uint64) {})
		if err != nil {
			return nil, err
		}
		differing, slots = append(differing, some...), rest
	}
	return differing, nil
}

// sums compares the source's sums, range by range, with the replica's at the position of
// each.
func (v *verifying) sums(
	ctx context.Context, c Comparison, query url.Values, each func(slots int, records uint64),
) (differing []uint16, err error) {
	f := v.follower
	d, err := f.source.connectQuietly(ctx, PathSums, query, f.cfg.Sink.Position(), waitAside)
	if err != nil {
		return nil, err
	}
	defer d.close()
	err = d.takeSums(func(part *sumsPart) error {
		reaching, cancel := context.WithTimeout(ctx, verifyReach)
		defer cancel()
		own, err := c.Sums(reaching, part.first, part.last, part.head.Position)
		if err != nil {
			return local(err)
		}
		records := uint64(0)
		for i, sum := range part.sums {
			records += sum.Records
			if sum != own[i] {
				differing = append(differing, part.first+uint16(i))
			}
		}
		v.result.Position = part.head.Position
		each(len(part.sums), records)
		return nil
	})
	return differing, err
}

// waitAside ignores a refusal, because the replica does not wait.
func waitAside() {}

// local marks an error of the replica, unless it passes.
func local(err error) error {
	if errors.Is(err, ErrUnsettled) {
		return err
	}
	return fmt.Errorf("%w: %w", errLocal, err)
}

// explain looks into slots that differ for the records that do.
func (v *verifying) explain(ctx context.Context, c Comparison) error {
	f := v.follower
	list, _ := slotList(v.differing[:min(len(v.differing), maxExplained)])
	d, err := f.source.connectQuietly(ctx, PathSnapshot, url.Values{"slots": {list}}, f.cfg.Sink.Position(), waitAside)
	if err != nil {
		return err
	}
	defer d.close()
	source := map[string]*waypost.Record{}
	_, err = d.takeSlots(func(part *slotsPart, last bool) error {
		for _, raw := range part.records {
			var r waypost.Record
			if err := DecodeRecord(raw, &r); err != nil && !errors.Is(err, ErrContent) {
				return err
			}
			source[nameOf(&r)] = cloned(&r)
		}
		if !last {
			return nil
		}
		defer clear(source)
		for slot := int(part.first); slot <= int(part.last); slot++ {
			if err := v.explainSlot(ctx, c, uint16(slot), part.head.Position, source); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// explainSlot compares the records of a slot. Records that were written after the
// position are left out.
func (v *verifying) explainSlot(
	ctx context.Context, c Comparison, slot uint16, at waypost.Position, source map[string]*waypost.Record,
) error {
	held := map[string]bool{}
	err := c.Records(ctx, slot, at, func(r *waypost.Record, rotten error) error {
		key := nameOf(r)
		held[key] = true
		theirs := source[key]
		d := Difference{Slot: slot, Kind: r.Kind, Domain: r.Domain, Name: string(r.Name), Source: theirs, Held: cloned(r)}
		switch {
		case rotten != nil:
			d.What, d.Held = Unreadable, nil
		case r.Revision.Epoch == at.Epoch.Ordinal && r.Revision.Seq > at.Seq:
			return nil
		case theirs == nil:
			d.What = Extra
		case theirs.Stamp != r.Stamp || theirs.Revision != r.Revision || theirs.State != r.State || !bytes.Equal(theirs.Payload, r.Payload):
			d.What = Changed
		default:
			return nil
		}
		v.tell(&d)
		return nil
	})
	if err != nil {
		return local(err)
	}
	for key, r := range source {
		if !held[key] && waypost.Slot(r.Kind, r.Domain, r.Name) == slot {
			v.tell(&Difference{Slot: slot, Kind: r.Kind, Domain: r.Domain, Name: string(r.Name), What: Missing, Source: r})
		}
	}
	return nil
}

func (v *verifying) tell(d *Difference) {
	if len(v.result.Differences) < maxDifferences {
		v.result.Differences = append(v.result.Differences, *d)
	}
}

func nameOf(r *waypost.Record) string { return fmt.Sprintf("%d/%d/%s", r.Kind, r.Domain, r.Name) }

// cloned copies a record from bytes that are another's.
func cloned(r *waypost.Record) *waypost.Record {
	c := *r
	c.Name, c.Payload = bytes.Clone(r.Name), bytes.Clone(r.Payload)
	return &c
}
