{{- /* The comment of a field as a list item. It omits what the head of the page, the type's description,
or the type of the field says. */ -}}
{{- define "field_doc" -}}
{{- $doc := regexReplaceAll "([^\n])\n[ \t]*([^-\\s])" (.Doc | trim) "${1} ${2}" -}}
{{- if eq .Name "observedGeneration" -}}
{{- $doc = "the metadata.generation that this status reflects, or -1 until the operator has processed the object." -}}
{{- end -}}
{{- $doc = regexReplaceAll (printf "^%s (is |are )?" .Name) $doc "" -}}
{{- $doc = regexReplaceAll ",? in hours, minutes, and whole seconds(, such as \"[0-9a-z]+\"( or \"[0-9a-z]+\")?)?" $doc "" -}}
{{- $doc = regexReplaceAll "[:,]? an RFC 3339 time between the years 1000 and 2999(, such as \"[-0-9TZ:]+\")?" $doc "" -}}
{{- $doc = regexReplaceAll "[;,] otherwise the (client|realm) is not Accepted \\(" $doc " (" -}}
{{- $doc = regexReplaceAll " If unset, [a-zA-Z]+( or [a-zA-Z]+)? must be set\\." $doc "" -}}
{{- $doc = regexReplaceAll " If unset, the claim has another type\\." $doc "" -}}
{{- $doc = regexReplaceAll " A name in parentheses[^.]*\\." $doc "" -}}
{{- $doc = regexReplaceAll "It can have at most ([0-9]+) entries" $doc "At most ${1} entries" -}}
{{- $doc = $doc | replace " It is a duration." "" | replace " It is." "" | replace ": a duration." "." -}}
{{- $doc = printf "%s%s" (substr 0 1 $doc | upper) (substr 1 -1 $doc) -}}
{{- $doc = regexReplaceAll "\n\n([^ ])" ($doc | replace "\n\n  - " "\n  - ") "\n\n  ${1}" -}}
{{ regexReplaceAll "([.\"])_" ($doc | replace "<" "\\<" | replace "*" "\\*" | replace "$" "\\$") "${1}\\_" }}
{{- end -}}
