{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
The standard metadata of a Kubernetes object.
{{- else -}}
{{ template "cell" .Doc }}
{{- end -}}
{{- end -}}
