import{a as p,c as m,la as o}from"./chunk-JXVF3X7G.js";m(p(o,null),document.getElementById("app"));
