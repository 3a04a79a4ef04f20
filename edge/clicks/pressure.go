package clicks

import (
	"cmp"
	"errors"
	"log/slog"
	"math/bits"
	"slices"
)

const (
	// mergeWidth is how many folds of one size become one. So a click is written again only as
	// often as its fold grows by that factor, or loses detail.
	mergeWidth = 8

	// maxInputs bounds a merge, each of whose inputs has a block in memory.
	maxInputs = 16

	// exactShare and detailShare are the parts of the quota, one of so many, that folds may
	// take while clicks have their time, and their profiles. Of what is left over, a part is
	// reserved for what merges write before they remove anything.
	exactShare   = 4
	detailShare  = 2
	mergeReserve = 8

	// From this part of the quota on, in hundredths, folds become as small as they can.
	pressedAt = 60
)

// mergeFolds is the merger: it keeps folds few and, when room gets scarce, small.
func (j *Journal) mergeFolds() {
	failing := false
	for {
		select {
		case <-j.stop:
			return
		case <-j.folded:
		}
		for {
			job := j.nextMerge()
			if job == nil {
				break
			}
			err := j.merge(job)
			if errors.Is(err, errSealing) {
				return
			}
			if err == nil {
				failing = false
				continue
			}
			j.counts.diskErrors.Add(1)
			if !failing { // until the next fold, when it is tried again
				j.log.Error("folds of clicks could not be merged", slog.Any("error", err))
			}
			failing = true
			break
		}
	}
}

// nextMerge claims folds to be merged, if some should be.
func (j *Journal) nextMerge() *mergeJob {
	used, err := j.dir.used()
	if err != nil {
		return nil
	}
	free := j.cfg.MaxBytes - used - j.cfg.SegmentBytes // one is left for batches
	if free < j.cfg.exactBytes {
		free += j.makeRoom(j.cfg.exactBytes - free)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var sizes [totalGrade + 1]int64
	for _, l := range j.lanes {
		for _, f := range l.folds {
			sizes[f.grade] += f.size
		}
	}
	pressed := used > j.cfg.MaxBytes/100*pressedAt
	job := j.pickMerge(sizes, free, pressed)
	if job != nil {
		for _, f := range job.inputs {
			f.merging = true
		}
	}
	return job
}

// pickMerge finds folds to be merged. The lock is held.
func (j *Journal) pickMerge(sizes [totalGrade + 1]int64, free int64, pressed bool) *mergeJob {
	if sizes[exactGrade] > j.cfg.exactBytes {
		if job := j.coarsen(exactGrade, quarterGrade, free); job != nil {
			return job
		}
	}
	if sizes[exactGrade]+sizes[quarterGrade] > j.cfg.MaxBytes/detailShare {
		if job := j.coarsen(quarterGrade, totalGrade, free); job != nil {
			return job
		}
	}
	if job := j.oneRank(free); job != nil || !pressed {
		return job
	}
	if job := j.smallest(free); job != nil {
		return job
	}
	if job := j.coarsen(quarterGrade, totalGrade, free); job != nil {
		return job
	}
	return j.coarsen(exactGrade, quarterGrade, free)
}

// coarsen finds the oldest folds of a grade, as far as there is room to write what they
// become.
func (j *Journal) coarsen(from, to grade, free int64) *mergeJob {
	for _, l := range j.lanes {
		job := &mergeJob{lane: l, grade: to}
		for _, f := range l.folds {
			if f.grade == from && f.whole() && len(job.inputs) < maxInputs && free >= f.size {
				job.inputs = append(job.inputs, f)
				free -= f.size
			}
		}
		if len(job.inputs) > 0 {
			return job
		}
	}
	return nil
}

// oneRank finds as many folds as are merged, of one grade and about one size, when there
// are so many.
func (j *Journal) oneRank(free int64) *mergeJob {
	for _, l := range j.lanes {
		for g := quarterGrade; g <= totalGrade; g++ {
			var of [22][]*fold // 64 bits, 3 for each factor of 8
			for _, f := range l.folds {
				if f.grade != g || !f.whole() {
					continue
				}
				rank := bits.Len64(f.clicks()) / 3
				if of[rank] = append(of[rank], f); len(of[rank]) == mergeWidth && sizeOf(of[rank]) <= free {
					return &mergeJob{lane: l, inputs: of[rank], grade: g}
				}
			}
		}
	}
	return nil
}

// smallest finds folds of totals that may be of different sizes, unless one is so much
// larger than the others that it is not worth to write it again.
func (j *Journal) smallest(free int64) *mergeJob {
	for _, l := range j.lanes {
		var some []*fold
		for _, f := range l.folds {
			if f.grade == totalGrade && f.whole() {
				some = append(some, f)
			}
		}
		slices.SortFunc(some, func(a, b *fold) int { return cmp.Compare(a.size, b.size) })
		var sum int64
		for i, f := range some {
			if i == maxInputs || i > 0 && f.size > 4*sum || sum+f.size > free {
				some = some[:i]
				break
			}
			sum += f.size
		}
		if len(some) > 1 {
			return &mergeJob{lane: l, inputs: some, grade: totalGrade}
		}
	}
	return nil
}

func sizeOf(folds []*fold) (sum int64) {
	for _, f := range folds {
		sum += f.size
	}
	return sum
}
