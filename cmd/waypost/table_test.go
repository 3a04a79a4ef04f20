package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTabulate_FitsTheTerminal(t *testing.T) {
	rows := [][]string{{"CODE", "TARGET", "TITLE"}, {"spring", strings.Repeat("ü", 60), "Spring"}, {"a", "b", strings.Repeat("c", 40)}}
	all := tabulate(rows, 0)
	require.Equal(t, "CODE    TARGET"+strings.Repeat(" ", 56)+"TITLE", strings.Split(all, "\n")[0])
	for width := 30; width <= 80; width++ {
		for _, line := range strings.Split(tabulate(rows, width), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width, line)
		}
	}
	require.Equal(t, "CODE    TARGET     TITLE\nspring  üüüüüüüü…  Spring\na       b          cccccccc…", tabulate(rows, 28))
	require.Equal(t, tabulate(rows, 5), tabulate(rows, 1), "no column vanishes")
}
