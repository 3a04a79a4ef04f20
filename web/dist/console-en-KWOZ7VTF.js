import{a as p,c as m,la as o}from"./chunk-FI3HPV25.js";m(p(o,null),document.getElementById("app"));
