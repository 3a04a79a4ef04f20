import{a as p,c as m,la as o}from"./chunk-AWWGZF3A.js";m(p(o,null),document.getElementById("app"));
