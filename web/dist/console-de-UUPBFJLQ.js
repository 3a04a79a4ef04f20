import{a as p,c as m,la as o}from"./chunk-YKL3TZC6.js";m(p(o,null),document.getElementById("app"));
