package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p sessionCommands) command() *cobra.Command {
	c := group("sessions", "See and end the own sessions", p.listCommand(), p.endCommand())
	return p.bindAll(c)
}

func (p sessionCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the own sessions, newest first: address, program, last use",
		Example: `  waypost sessions list`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			all, err := client.Get[api.Sessions](ctx, server, api.PathSessions)
			return sessionTable(&all, p.width()), all, err
		}),
	}
}

func sessionTable(all *api.Sessions, width int) string {
	return tableOf("ID\tSINCE\tLAST USED\tADDRESS\tPROGRAM", all.Sessions, width, func(s *api.SessionInfo) []any {
		program := s.UserAgent
		if s.Current {
			program = "(this one) " + program
		}
		return []any{s.ID, s.CreatedAt.Local().Format(time.DateTime), s.LastUsedAt.Local().Format(time.DateTime), cmp.Or(s.Address, "-"), program}
	})
}

func (p sessionCommands) endCommand() *cobra.Command {
	var others bool
	c := &cobra.Command{
		Use:   "end [ID...]",
		Short: "End own sessions, on all control planes within a second",
		Example: `  waypost sessions end 12
  waypost sessions end --others`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			if others == (len(args) > 0) {
				return "", nil, &usageError{errors.New("give the ids of sessions, or --others")}
			}
			ids := make([]int64, len(args))
			for i, arg := range args {
				var err error
				if ids[i], err = strconv.ParseInt(arg, 10, 64); err != nil || ids[i] < 1 {
					return "", nil, &usageError{fmt.Errorf("%q is no id of a session: see waypost sessions list", arg)}
				}
			}
			if others {
				return "ended all other sessions", map[string]bool{"others": true}, server.Delete(ctx, api.PathSessions)
			}
			for i, id := range ids {
				if err := server.Delete(ctx, client.Path(api.PathSessions, id)); err != nil {
					return "", nil, fmt.Errorf("end session %d: %w (ended before: %d of %d)", id, err, i, len(ids))
				}
			}
			return "ended " + strings.Join(args, ", "), map[string][]int64{"ended": ids}, nil
		}),
	}
	c.Flags().BoolVar(&others, "others", false, "end all sessions except the one in use")
	return c
}
