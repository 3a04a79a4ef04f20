package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost/client"
)

// verifySource compares PostgreSQL with itself.
func (p edgesCommands) verifySource(ctx context.Context, recompute bool, timeout time.Duration) error {
	if recompute {
		const question = "If the rows do not add up to the digest, it is replaced while writes wait, and edges then take all differences from PostgreSQL. " +
			"Type recompute to go on: "
		if err := p.confirm(question, "recompute"); err != nil {
			return err
		}
	}
	return p.withAPI(func(server *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		d, err := server.Edges.CheckDigest(ctx, recompute)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("the control plane %s has not answered within %s (--timeout), and goes on", printable(d.ControlPlane), timeout)
		case err != nil:
			return err
		case d.Error != nil:
			return fmt.Errorf("PostgreSQL's rows could not be added up: %s", printable(*d.Error))
		case d.Equal == nil:
			return errors.New("the control plane was restarted during the check; try again")
		}
		text := fmt.Sprintf("%d rows at position %s, digest %s: equal", d.Records, positionText(&client.Edge{Position: d.Position}), d.Digest)
		if !*d.Equal {
			text = fmt.Sprintf("%d rows at position %s: DIFFERENT\nthe digest is %s, and the rows add up to %s",
				d.Records, positionText(&client.Edge{Position: d.Position}), d.Digest, d.Rows)
		}
		if err := p.print(text, d); err != nil || *d.Equal {
			return err
		}
		return errors.New("PostgreSQL's rows do not add up to its digest")
	})
}

// warnOfSource says on standard error that no edge can be repaired at present.
func (p edgesCommands) warnOfSource(ctx context.Context, server *client.Client) {
	if d, err := server.Edges.Digest(ctx); err == nil && d.Equal != nil && !*d.Equal {
		_, _ = fmt.Fprintln(p.stderr, "waypost: PostgreSQL's own rows do not add up to the digest of the changelog, so no edge can be repaired: "+
			"run `waypost verify --source`")
	}
}
