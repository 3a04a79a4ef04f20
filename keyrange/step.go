package keyrange

import "waypost"

// Step moves the upper end of one live range to another region: the counters from
// At up to Hi. It cuts the range in two where At lies within it.
type Step struct {
	Range    int64 // ID
	Prefix   int   // of the range, for people who read the plan
	At       int64 // 0: everything that is not leased when the step is done
	Hi       int64 // end of the range before the step
	Counters int64 // how many move; with At 0, how many would have at the time of planning
	From, To waypost.Region
}

// Apply gives what becomes of r: the part that stays, which is the zero Range when
// nothing does, and the part that moves, which has no ID when it was cut off. The
// leased counters always stay, and so does the range's ID as long as there are any.
//
// The error is waypost.EConflict when r is no longer what the step was planned for:
// another range, owner, end or state, or leased beyond At. More leases below At are
// no reason to refuse.
func (s Step) Apply(r Range) (stays, moves Range, err error) {
	if err := r.Validate(); err != nil {
		return Range{}, Range{}, err
	}
	if _, err := waypost.ParseRegion(string(s.To)); err != nil {
		return Range{}, Range{}, err
	}
	switch {
	case s.From == s.To:
		err = waypost.Errorf(waypost.EInvalid, "region %s owns range %d already", s.To, r.ID)
	case s.At < 0:
		err = waypost.Errorf(waypost.EInvalid, "there is no counter %d", s.At)
	case r.ID != s.Range || r.Prefix != s.Prefix:
		err = waypost.Errorf(waypost.EConflict, "a step for range %d does not fit range %d", s.Range, r.ID)
	case r.State != Live:
		err = waypost.Errorf(waypost.EConflict, "range %d is %s", r.ID, r.State)
	case r.Region != s.From:
		err = waypost.Errorf(waypost.EConflict, "range %d belongs to region %s now, not to %s", r.ID, r.Region, s.From)
	case r.Hi != s.Hi:
		err = waypost.Errorf(waypost.EConflict, "range %d ends at counter %d now, not at %d", r.ID, r.Hi, s.Hi)
	case r.Next == r.Hi:
		err = waypost.Errorf(waypost.EConflict, "range %d has no counter left that is not leased", r.ID)
	}
	if err != nil {
		return Range{}, Range{}, err
	}
	at := s.At
	if at == 0 {
		at = r.Next
	}
	if fresh := r.Next == r.Lo; fresh && at == r.Next {
		moves = r
	} else if stays, moves, err = Split(r, at); err != nil {
		return Range{}, Range{}, err
	}
	moves.Region = s.To
	return stays, moves, nil
}
