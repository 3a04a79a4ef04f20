import{Wa as o,a as p,c as m}from"./chunk-TU7OWAAM.js";m(p(o,null),document.getElementById("app"));
